// Tiny is a program that is quick to build.
package main

func main() {}
