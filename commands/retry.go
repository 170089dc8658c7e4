package commands

// retryAs is the error of a handler that has to begin again. The handler has changed and counted
// nothing, and its reply is discarded. Dispatch decides how the call continues.
type retryAs Outcome

const (
	// errNeedKeys: keys that the handler has put into c.Keys, or runs in c.Runs, are not in memory.
	errNeedKeys = retryAs(Load)
	// errOffload: the command must run again as a task (mayOffload). A command that only reads
	// becomes a task of scope Pinned. Any other has scope Global, and locks only its keys'
	// shards.
	errOffload = retryAs(Task)
	// errBlocked: the call waits for the condition in c.Wait.
	errBlocked = retryAs(Wait)
)

func (r retryAs) Error() string { return "commands: the call runs again" }
