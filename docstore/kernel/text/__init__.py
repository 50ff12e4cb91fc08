"""Words of texts, and what text indexes hold of them."""
