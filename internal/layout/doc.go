// Package layout tests rules for the source of all packages, such as the imports of each package
// and the places where a library is used. Only internal/clock and a few folders may ask the system
// for the time. Other rules are about locks, comments, documents and the length of files.
package layout
