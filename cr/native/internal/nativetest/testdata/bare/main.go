// Command bare is Go and nothing else.
package main

func main() { println(1) }
