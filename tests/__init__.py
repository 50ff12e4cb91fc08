"""The tests by what they run: modules, engines in lockstep, simulated sets, processes, a real mongod beside ours."""
