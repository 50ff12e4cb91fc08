"""The wide-column mode: the model as pure values, CQL over it, and their implementation on a node."""
