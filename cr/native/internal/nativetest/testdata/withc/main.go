// Command withc holds C code.
package main

// int one(void) { return 1; }
import "C"

func main() { println(C.one()) }
