# Functions alone: nothing has a type that is not Python's.
