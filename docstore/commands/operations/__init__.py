"""Operations in progress: their registry, ids, and display by currentOp."""
