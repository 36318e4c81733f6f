"""The whole chain on a machine with an accelerator and no cluster: the operator's command lines and stage programs.

    PYTHONPATH=operator python -m bench.chain --target DIR --work DIR --report FILE

What Kubernetes does for a stage (a server beside it, a configuration file, a termination message) is done here by
subprocesses; what is rendered and what runs is the product's. Then a control without speculation and heads at several
numbers of speculative tokens are measured by the probe and compared by the judge.
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import serving
from demo import workload
from paceline import judge
from paceline.api import measurement, report, sources, stages
from paceline.api.drafttrainingjob import DraftTrainingJobSpec, Stage
from paceline.engines.base import ServeRequest, Speculation
from paceline.training import configs, places, results, shapes

CONTROL = serving.CONTROL
_START_LIMIT_S = 420


def main() -> int:
    """Run the chain; the answer is one JSON document."""
    options = _options()
    options.work.mkdir(parents=True, exist_ok=True)
    prompts = workload.in_domain(options.prompts + options.probe_prompts)
    (options.work / "prompts.jsonl").write_text(workload.json_lines(prompts[: options.prompts]))
    (options.work / "probe.jsonl").write_text(workload.json_lines(prompts[options.prompts :]))
    spec = _spec(options)
    folders = places.Places(
        target=_at(options.target),
        workspace=_at(options.work / "run"),
        output=_at(options.work / "published"),
        prompts=_at(options.work / "prompts.jsonl"),
    )
    record, answer = results.Record(), {"stages": {}, "comparisons": {}}
    for stage in Stage:
        known = configs.Known(name="chain", uid="chain", spec=spec, record=record, folders=folders)
        result, seconds = _run_stage(stage, known, options)
        record = record.with_stage(stage=stage, result=result)
        answer["stages"][stage.value] = {"seconds": round(seconds, 1), **result.wire()}
        serving.say(f"{stage}: {seconds:.0f} s {result.wire()}")
    head = answer["stages"]["Publish"]["path"]
    answer["comparisons"] = _measure(head, options)
    options.report.write_text(json.dumps(answer, indent=1))
    return 0


def _run_stage(stage: Stage, known: configs.Known, options: argparse.Namespace) -> tuple[Any, float]:
    """Return a stage's result and how long it took, its server's start included."""
    started = time.monotonic()
    request = shapes.engine_request(stage, known)
    server = _serve(f"server-{stage.lower()}", request, options) if request else None
    config = options.work / f"{stage.lower()}.json"
    config.write_text(json.dumps(configs.config(stage, known).wire()))
    message = options.work / f"{stage.lower()}.report"
    command = [sys.executable, "-m", "paceline.stages", stage.lower(), "--config", str(config)]
    done = subprocess.run([*command, "--report", str(message)], check=False)
    if server:
        serving.stop(server.pid)
    told = report.decode(message.read_text(), stages.StageReport)
    if done.returncode or told.result is None:
        raise SystemExit(f"stage {stage} ended with {done.returncode}: {told.error}")
    return told.result, time.monotonic() - started


def _measure(head: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return how each number of speculative tokens compares with the control, at every concurrency."""
    arms: dict[str, Speculation | None] = {
        serving.name_of(arm): serving.speculation(arm, Path(head)) for arm in (CONTROL, *map(str, options.tokens))
    }
    servers = {
        name: _serve(f"arm-{name}", _request(speculation, 8100 + at, options), options)
        for at, (name, speculation) in enumerate(arms.items())
    }
    found: dict[str, Any] = {}
    blocks: list[dict[str, Any]] = []
    for at, name in enumerate(arms):
        if name == CONTROL:
            continue
        measured = [one for number in range(options.rounds) for one in _probe(name, 8100 + at, number, options)]
        blocks += [one.wire() for one in measured]
        policy = judge.Policy(kind=judge.Bar.BETTER, min_gain_percent=3, min_rounds=2, max_rounds=options.rounds)
        verdicts = {"all": judge.compare(measured, candidate=name, rival=CONTROL, policy=policy)}
        for band in options.concurrency:
            mine = [one for one in measured if one.concurrency == band]
            verdicts[str(band)] = judge.compare(mine, candidate=name, rival=CONTROL, policy=policy)
        found[name] = {key: _row(one) for key, one in verdicts.items()}
        found[name]["acceptanceLength"] = _acceptance(measured, name)
        serving.say(f"{name}: {json.dumps(found[name])}")
    for server in servers.values():
        serving.stop(server.pid)
    return {"verdicts": found, "measurements": blocks}


def _probe(name: str, port: int, number: int, options: argparse.Namespace) -> list[measurement.Measurement]:
    """Return the blocks of one round."""
    arms = [
        measurement.ProbeArm(arm=arm, url=f"http://127.0.0.1:{at}", pod_uid=arm, node="here")
        for arm, at in ((name, port), (CONTROL, 8100))
    ]
    config = measurement.ProbeConfig(
        arms=arms,
        model=str(options.target),
        prompts_path=str(options.work / "probe.jsonl"),
        concurrencies=options.concurrency,
        requests_per_slot=options.requests_per_slot,
        max_tokens=options.max_tokens,
        round=number,
    )
    path, message = options.work / "probe.json", options.work / "probe.report"
    path.write_text(json.dumps(config.wire()))
    command = [sys.executable, "-m", "paceline.probe", "--config", str(path), "--termination-log", str(message)]
    subprocess.run(command, check=False)
    told = report.decode(message.read_text(), measurement.ProbeReport)
    if told.error:
        raise SystemExit(f"probe of {name}: {told.error}")
    return told.measurements


def _row(one: judge.Comparison) -> dict[str, Any]:
    numbers = {"ratio": one.ratio, "lower": one.lower, "upper": one.upper}
    rounded = {key: None if value is None else round(value, 3) for key, value in numbers.items()}
    return {"verdict": one.verdict.value, "reason": one.reason.value, **rounded}


def _acceptance(measured: Sequence[measurement.Measurement], name: str) -> float | None:
    drafts = sum(one.drafts for one in measured if one.arm == name)
    accepted = sum(one.accepted_tokens for one in measured if one.arm == name)
    return round(1 + accepted / drafts, 3) if drafts else None


def _request(speculation: Speculation | None, port: int, options: argparse.Namespace) -> ServeRequest:
    return ServeRequest(
        model=str(options.target),
        revision=None,
        trust_remote_code=False,
        tensor_parallel_size=1,
        port=port,
        args=options.engine_args,
        speculation=speculation,
    )


def _serve(name: str, request: ServeRequest, options: argparse.Namespace) -> serving.Server:
    """Return a server that answers /health."""
    folder = options.work / f"{name}-0"
    server = serving.Server(
        name=name,
        load=0,
        url=f"http://127.0.0.1:{request.port}",
        pid=serving.start(request, options.engine, folder, caches=options.work / "caches"),
    )
    starting = serving.wait_for([server], options.work, limit_s=_START_LIMIT_S)
    if starting or not serving.healthy(server.url):
        serving.stop(server.pid)
        raise SystemExit(f"{name} did not start: {serving.last_words(folder)}")
    return server


def _at(path: Path) -> sources.Location:
    return sources.Location(claim=None, path=str(path))


def _spec(options: argparse.Namespace) -> DraftTrainingJobSpec:
    return DraftTrainingJobSpec.model_validate(
        {
            "target": {"uri": "pvc://models/target"},
            "engine": {"image": "vllm:0.26.0", "args": list(options.engine_args)},
            "trainer": {"image": "trainer:0.1.0"},
            "data": {
                "prompts": {"uri": "pvc://training/prompts.jsonl"},
                "regeneration": {"maxTokens": options.max_tokens, "concurrency": 64},
                "sequenceLength": 512,
            },
            "extraction": {"concurrency": 16},
            "draft": {"vocabularySize": options.vocabulary},
            "training": {
                "epochs": options.epochs,
                "learningRate": "1e-3",
                "totalSequenceLength": 2048,
            },
            "evaluation": {"maxPrompts": 40, "maxTokens": options.max_tokens},
            "workspace": {"claimName": "training"},
            "output": {"uri": "pvc://drafts/chain"},
        }
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("--engine", type=shlex.split, default=["vllm"], help="the engine's program")
    parser.add_argument("--engine-args", type=shlex.split, default=["--max-model-len=2048"])
    parser.add_argument("--prompts", type=int, default=1200)
    parser.add_argument("--probe-prompts", type=int, default=128)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--vocabulary", type=int, default=4096)
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 3, 5])
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--requests-per-slot", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
