"""A shop: products with makers, tags and sizes, and what the admin shows of them."""
