"""Operations in progress: their registry, their ids, and how currentOp shows them."""
