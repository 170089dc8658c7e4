package commands

// zsetBlockCommands wait while there is nothing to take. Any command that makes a sorted set at one
// of their keys wakes them.
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
	blockingForm(multiPopCommand("BZMPOP", SortedSet,
		"Takes members from the first sorted set, of those named, that has any, or waits for some.",
		zsetPopComplexity, blockingPopFromFirst(readZSetEnd), word("MIN"), word("MAX"))),
}
