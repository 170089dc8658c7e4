// Package layout has the tests of how the packages depend on each other: which ones import
// whom, which library is used where, and that time comes from internal/clock alone.
package layout
