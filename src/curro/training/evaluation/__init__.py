"""Pass rates and benchmark suites: what `curro estimate`, `evaluate` and `curate` do."""
