// Package group tests groups of real servers. They are created, changed and killed while clients
// work, and no reply may turn out to have been wrong.
package group
