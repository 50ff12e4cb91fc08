"""The metadata of a sharded cluster: typed records in the `config` database, and the only code that changes them."""
