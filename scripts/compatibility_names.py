"""The names of MongoDB's languages and commands, by family: what `compatibility.py` asks the parsers about."""

from __future__ import annotations

from collections.abc import Mapping


def _words(text: str) -> list[str]:
    return text.split()


UPDATE = _words("""
$currentDate $inc $min $max $mul $rename $set $setOnInsert $unset $ $[] $[id] $addToSet $pop $pull $push $pullAll
$each $position $slice $sort $bit
""")

QUERY = _words("""
$eq $gt $gte $in $lt $lte $ne $nin $and $not $nor $or $exists $type $expr $jsonSchema $mod $regex $text $where $all
$elemMatch $size $bitsAllClear $bitsAllSet $bitsAnyClear $bitsAnySet $geoIntersects $geoWithin $near $nearSphere $box
$center $centerSphere $geometry $maxDistance $minDistance $polygon projection_$ projection_$elemMatch projection_$meta
projection_$slice $comment $rand $natural
""")

STAGES = _words("""
$match $project $group $sort $limit $skip $unwind $count $out $geoNear $redact $lookup $sample $indexStats $addFields
$bucket $bucketAuto $collStats $facet $graphLookup $replaceRoot $sortByCount $currentOp $listLocalSessions $listSessions
$set $unset $replaceWith $merge $planCacheStats $changeStream $unionWith $setWindowFields $documents $densify $fill
$shardedDataDistribution $_internalUnpackBucket
""")

LATER_STAGES = _words("""
$changeStreamSplitLargeEvent $listSearchIndexes $listSampledQueries $queryStats $querySettings $rankFusion
$listClusterCatalog $score $scoreFusion $search $searchMeta $vectorSearch $rerank
""")

ACCUMULATORS = _words("""
$accumulator $addToSet $avg $bottom $bottomN $count $first $firstN $last $lastN $max $maxN $min $minN $push $stdDevPop
$stdDevSamp $sum $top $topN $mergeObjects
""")

WINDOW_FUNCTIONS = _words("""
$covariancePop $covarianceSamp $denseRank $derivative $documentNumber $expMovingAvg $integral $linearFill $locf $rank
$shift
""")

LATER_ACCUMULATORS = ["$median", "$percentile"]

CONVERSIONS = _words("""
$convert $toBool $toDate $toDecimal $toDouble $toInt $toLong $toObjectId $toString $trim $ltrim $rtrim
""")

LATER_CONVERSIONS = ["$toArray", "$toObject"]

EXPRESSIONS: Mapping[str, list[str]] = {
    "arithmetic": _words("""
$abs $add $ceil $divide $exp $floor $ln $log $log10 $mod $multiply $pow $round $sqrt $subtract $trunc
"""),
    "trigonometry": _words("""
$acos $acosh $asin $asinh $atan $atan2 $atanh $cos $cosh $degreesToRadians $radiansToDegrees $sin $sinh $tan $tanh
"""),
    "boolean and comparison": _words("$and $not $or $cmp $eq $gt $gte $lt $lte $ne"),
    "conditional": _words("$cond $ifNull $switch"),
    "dates": _words("""
$dateAdd $dateDiff $dateFromParts $dateFromString $dateSubtract $dateToParts $dateToString $dateTrunc $dayOfMonth
$dayOfWeek $dayOfYear $hour $isoDayOfWeek $isoWeek $isoWeekYear $millisecond $minute $month $second $week $year
$tsIncrement $tsSecond
"""),
    "arrays": _words("""
$arrayElemAt $arrayToObject $concatArrays $filter $first $firstN $in $indexOfArray $isArray $last $lastN $map $maxN
$minN $objectToArray $range $reduce $reverseArray $size $slice $sortArray $zip
"""),
    "sets": _words("""
$allElementsTrue $anyElementTrue $setDifference $setEquals $setIntersection $setIsSubset $setUnion
"""),
    "strings": _words("""
$concat $indexOfBytes $indexOfCP $regexFind $regexFindAll $regexMatch $replaceAll $replaceOne $split $strLenBytes
$strLenCP $strcasecmp $substr $substrBytes $substrCP $toLower $toUpper
"""),
    "objects": _words("$getField $mergeObjects $setField $unsetField"),
    "statistics": _words("$avg $max $min $stdDevPop $stdDevSamp $sum"),
    "others": _words("""
$binarySize $bsonSize $const $function $isNumber $let $literal $meta $rand $toHashedIndexKey $type
"""),
}

LATER_EXPRESSIONS = _words("""
$median $percentile
$bitAnd $bitNot $bitOr $bitXor $createObjectId $createUUID $currentDate $deserializeEJSON $hash $hexHash $minMaxScaler
$serializeEJSON $sigmoid $similarityCosine $similarityDotProduct $similarityEuclidean $subtype
""")

COMMANDS = _words("""
abortTransaction aggregate appendOplogNote applyOps authenticate buildInfo cloneCollectionAsCapped collMod collStats
commitTransaction compact connPoolStats connPoolSync connectionStatus convertToCapped count create createIndexes
createRole createUser currentOp dataSize dbCheck dbHash dbStats delete distinct drop dropAllRolesFromDatabase
dropAllUsersFromDatabase dropConnections dropDatabase dropIndexes dropRole dropUser endSessions explain features filemd5
find findAndModify fsync fsyncUnlock getClusterParameter getCmdLineOpts getDefaultRWConcern getDiagnosticData
getFreeMonitoringStatus getLastError getLog getMore getParameter getnonce grantPrivilegesToRole grantRolesToRole
grantRolesToUser hello hostInfo insert invalidateUserCache isMaster killAllSessions killAllSessionsByPattern killCursors
killOp killSessions listCollections listCommands listDatabases listIndexes lockInfo logRotate logout mapReduce ping
planCacheClear planCacheClearFilters planCacheListFilters planCacheSetFilter profile reIndex refreshSessions
renameCollection revokePrivilegesFromRole revokeRolesFromRole revokeRolesFromUser rolesInfo rotateCertificates
saslContinue saslStart serverStatus setClusterParameter setDefaultRWConcern setFeatureCompatibilityVersion
setFreeMonitoring setIndexCommitQuorum setParameter setProfilingFilterGlobally setUserWriteBlockMode shutdown
startSession top update updateRole updateUser usersInfo validate validateDBMetadata whatsmyuri
replSetAbortPrimaryCatchUp replSetFreeze replSetGetConfig replSetGetStatus replSetInitiate replSetMaintenance
replSetReconfig replSetResizeOplog replSetStepDown replSetStepUp replSetSyncFrom
""")
"""What a data node of MongoDB 6.0 lists, without what its processes tell only each other."""

LATER_COMMANDS = ["bulkWrite", "createSearchIndexes", "dropSearchIndex", "updateSearchIndex"]

ROUTER_COMMANDS = _words("""
addShard addShardToZone balancerCollectionStatus balancerStart balancerStatus balancerStop checkShardingIndex
cleanupOrphaned clearJumboFlag commitReshardCollection abortReshardCollection configureCollectionBalancing
enableSharding flushRouterConfig getShardMap getShardVersion isdbgrid listShards mergeChunks moveChunk movePrimary
netstat refineCollectionShardKey removeShard removeShardFromZone reshardCollection shardCollection split splitVector
updateZoneKeyRange
""")
"""What a router has besides."""
