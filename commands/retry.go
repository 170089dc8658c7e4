package commands

// retryAs is the error of a handler that has to begin again. The handler has changed and counted
// nothing, and its reply is discarded. Dispatch decides how the call continues.
type retryAs Outcome

const (
	// errNeedKeys: keys that the handler has put into c.Keys, or runs in c.Runs, are not in memory.
	errNeedKeys = retryAs(Load)
	// errOffload: the call has to be a task (mayOffload). If its command only reads, the task has
	// scope Pinned. Otherwise it has scope Global, and locks only the shards of its keys.
	errOffload = retryAs(Job)
	// errBlocked: the call waits for the condition in c.Wait.
	errBlocked = retryAs(Wait)
)

func (r retryAs) Error() string { return "commands: the call runs again" }
