// The two shards of compose.yml: their sets are made where they are not yet, and added to the cluster.
for (const shard of ["shard1", "shard2"]) {
  const hosts = ["a", "b", "c"].map(letter => `${shard}-${letter}:27017`);
  const members = hosts.map((host, number) => ({ _id : number, host : host }));
  const first = connect(`${hosts[0]}/admin`);
  const made = first.runCommand({ replSetInitiate : { _id : shard, members : members } });
  if (!made.ok && made.codeName != "AlreadyInitialized") {
    throw new Error(`${shard}: ${made.errmsg}`);
  }
  const added = db.adminCommand({ addShard : `${shard}/${hosts.join(",")}`, name : shard });
  if (!added.ok) {
    throw new Error(`${shard}: ${added.errmsg}`);
  }
}
print("shards: " + db.adminCommand({ listShards : 1 }).shards.map(shard => shard._id).join(", "));
