"""The wide-column mode: the model as pure values, CQL over it, and what carries both out on a node."""
