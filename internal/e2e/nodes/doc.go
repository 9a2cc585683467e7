// Package nodes tests jobs over several nodes with the real command, in a lab of nodes (package
// nodelab): that they compute what one machine computes, survive the loss of anything, and leave
// nothing behind on any node.
package nodes
