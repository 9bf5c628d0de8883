"""Roll-outs: a chain of agents speaks on queries, and what it says becomes trajectories."""
