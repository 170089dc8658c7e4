// Package layout holds the tests of how the packages stand to each other: who imports
// whom, which library is used where, and that time comes from internal/clock alone.
package layout
