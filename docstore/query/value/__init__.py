"""Values as the query languages handle them: order, collation, arithmetic, paths."""
