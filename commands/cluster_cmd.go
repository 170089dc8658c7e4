package commands

// A client that supports clusters asks for the nodes first; from this error it knows that the
// server is a single one. So the commands that such clients ask with are here, and none that
// changes a cluster.

const errNoCluster Error = "ERR This instance has cluster support disabled"

const noClusterSummary = "Fails: there is no cluster."

var clusterCommands = []Spec{
	{
		Name: "CLUSTER", Group: Cluster, Since: "3.0.0", Arity: -2,
		Summary: "Is about the nodes of a cluster, which there is none of.", Complexity: "Depends on subcommand.",
		Sub: []Spec{
			clusterAsks("COUNTKEYSINSLOT", "3.0.0", Stale, nil, intArg("slot")),
			clusterAsks("GETKEYSINSLOT", "3.0.0", Stale, []string{tipRandom}, intArg("slot"), intArg("count")),
			clusterAsks("HELP", "5.0.0", Loading|Stale, nil),
			clusterAsks("INFO", "3.0.0", Stale, []string{tipRandom}),
			clusterAsks("KEYSLOT", "3.0.0", Stale, nil, stringArg("key")),
			clusterAsks("LINKS", "7.0.0", Stale, []string{tipRandom}),
			clusterAsks("MYID", "3.0.0", Stale, nil),
			clusterAsks("MYSHARDID", "7.2.0", Stale, []string{tipRandom}),
			clusterAsks("NODES", "3.0.0", Stale, []string{tipRandom}),
			clusterAsks("SHARDS", "7.0.0", Stale, []string{tipRandom}),
			clusterAsks("SLOTS", "3.0.0", Stale, []string{tipRandom}),
		},
	},
	clusterMode("ASKING", Fast),
	clusterMode("READONLY", Loading|Stale|Fast),
	clusterMode("READWRITE", Loading|Stale|Fast),
}

// clusterAsks declares a subcommand that asks about the cluster.
func clusterAsks(name, since string, flags Flags, tips []string, args ...Arg) Spec {
	return Spec{
		Name: name, Group: Cluster, Since: since, Arity: 2 + len(args), Flags: flags, Scope: OnLoop,
		Summary: noClusterSummary, Complexity: "O(1)",
		Tips: tips, Args: args,
		Run: clusterDisabled,
	}
}

// clusterMode declares a command by which a connection says what it expects of a node.
func clusterMode(name string, flags Flags) Spec {
	return Spec{
		Name: name, Group: Cluster, Since: "3.0.0", Arity: 1, Flags: flags, Scope: OnLoop,
		Summary: noClusterSummary, Complexity: "O(1)",
		Categories: []string{"@connection"},
		Run:        clusterDisabled,
	}
}

func clusterDisabled(*Ctx) error { return errNoCluster }
