// Package parity keeps the shards from which, with the remaining images of a group, lost images are
// computed. They are shards of a Reed-Solomon code (package erasure), each on another node.
//
// # A shard
//
// A shard is a piece of the set whose images it protects:
//
//	data     as long as the longest image of the group
//	sums     CRC32C of each MiB of the data, 4 bytes each
//	header   JSON: the set, which shard this is and of how many, and each image's name, size and digest
//	tail     "gorun-parity-1\n\0", the length of the header in 8 bytes, SHA-256 of the header and the sums
//
// Numbers are little-endian. The name of the piece is made of the group: parity-<hash>-<number>.par. So shards of another
// grouping of the same images, after ranks have moved, lie beside it.
//
// # Never of mixed epochs
//
// A shard counts only for the set that its header names, and no set's name is used twice. An image
// is computed only from the pieces that the header names: images by their digests, shards by the
// same header. Each is read through and compared where it lies before it is used, and a damaged one
// is replaced by another. Finally the image itself is checked by its own digest, like any fetched
// image.
//
// # Lost images
//
// Lost finds the groups of a set by the pieces on the nodes, so no process has to remember them. It
// computes an image while it is read.
package parity
