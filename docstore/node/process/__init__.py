"""The life of a node process: settings from options, start and stop of its parts in order, repair, shutdown."""
