package commands

import "keyp/internal/glob"

// globMatch reports whether s matches a pattern that an administrator has set.
func globMatch(pattern, s []byte) bool { return glob.Match(pattern, s) }

// globAll reports whether a pattern matches everything.
func globAll(pattern []byte) bool { return glob.All(pattern) }

// patternSteps is the number of steps that a call and its nested calls may take for matching
// patterns, besides the free ones. These steps take about 20 ms.
const patternSteps = 1 << 22

const errPattern Error = "ERR matching this pattern takes too long for names of this length"

// matches reports whether s matches a pattern that the client has sent. The call ends with
// errPattern, whatever its handler returns, if that takes too many steps.
func (c *Ctx) matches(pattern, s []byte) bool {
	if c.costly {
		return false
	}
	root := c
	for root.parent != nil {
		root = root.parent
	}
	ok, done := root.steps.Match(pattern, s)
	c.costly = !done
	return ok
}

// cheapMatch reports whether s matches a pattern that a client has sent. It returns false if the
// match takes more than the free steps, so a subscription does not delay publishers.
func cheapMatch(pattern, s []byte) bool {
	var none glob.Steps
	ok, _ := none.Match(pattern, s)
	return ok
}
