// Package group has tests of groups of real servers: they are made, changed and killed while
// clients work, and no reply may turn out to have been wrong.
package group
