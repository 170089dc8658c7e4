// Package layout tests how the packages depend on each other: which ones import which, which
// library is used where, and that time comes from internal/clock alone.
package layout
