"""What a slower machine is asked to do."""

from demo import pace


def test_reference_machine_gets_the_whole_recipe() -> None:
    """Nothing is cut where the machine is as fast as the one the recipe was chosen on."""
    assert pace.fit(pace.first_guess(), pace.REFERENCE_TOKENS_PER_SECOND) == pace.first_guess()


def test_third_of_the_speed_learns_from_fewer_prompts_but_enough() -> None:
    """A slow machine trains on less, never on so little that no head could win."""
    fitted = pace.fit(pace.first_guess(), pace.REFERENCE_TOKENS_PER_SECOND / 3)
    assert fitted.train_prompts < pace.first_guess().train_prompts
    assert fitted.train_prompts >= 160


def test_slower_machine_is_told_a_longer_time() -> None:
    """The expected time is fitted to the speed too."""
    recipe = pace.first_guess()
    assert pace.expected_s(recipe, 40.0) > 2 * pace.expected_s(recipe, 140.0)
