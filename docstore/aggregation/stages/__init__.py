"""The stages: one module each, with a `DECLARATIONS` tuple; `table` joins them."""
