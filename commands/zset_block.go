package commands

// The commands of sorted sets that wait while there is nothing to take. They are woken by
// whatever makes a sorted set of one of their keys.
var zsetBlockCommands = []Spec{
	blockingPopCommand(Spec{
		Name: "BZPOPMIN", Group: SortedSet, Since: "5.0.0", Flags: Write | Fast | Blocking,
		Summary:    "Takes the member with the lowest score from the first sorted set, of those named, that has any, or waits for one.",
		Complexity: "O(log N) in the size of the sorted set.",
	}, lowest),
	blockingPopCommand(Spec{
		Name: "BZPOPMAX", Group: SortedSet, Since: "5.0.0", Flags: Write | Fast | Blocking,
		Summary:    "Takes the member with the highest score from the first sorted set, of those named, that has any, or waits for one.",
		Complexity: "O(log N) in the size of the sorted set.",
	}, highest),
	{
		Name: "BZMPOP", Group: SortedSet, Since: "7.0.0",
		Summary:    "Takes members from the first sorted set, of those named, that has any, or waits for some.",
		Complexity: "O(K + M log N), K being the keys, M the members to remove and N the size of the sorted set.",
		Arity:      -5, Flags: Write | Blocking,
		Keys: []KeySpec{NumKeys(2, RW|Access|Delete)},
		Args: []Arg{
			doubleArg("timeout"), intArg("numkeys"), keyArg("key").many(), oneOf("where", word("MIN"), word("MAX")),
			intArg("count").after("COUNT").opt(),
		},
		Run: blockingPopFromFirst(readZSetEnd),
	},
}
