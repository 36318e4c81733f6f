"""What a SpeculativeDeployment writes, as documents: revisions, records, what serves, Jobs, routes, claims."""
