"""From options to a running node and back: settings, the order in which its parts start and end, repair, stop."""
