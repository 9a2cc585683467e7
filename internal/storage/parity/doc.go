// Package parity keeps what is needed, beside the images that are left of a group, to compute those that are lost: shards of a
// Reed-Solomon code (package erasure), each on another node.
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
// A shard counts only for the set that its header names, and no set's name is used twice. What an image is computed of must be
// exactly what the header names: images by their digests, shards by the same header. Each is read through and compared where it lies
// before it is used, and one that is damaged is passed over for another. At last the image itself is checked by its own digest, as any
// image that was fetched.
//
// # Lost images
//
// Lost finds the groups of a set by what the nodes have, so nobody has to remember them. It computes an image while it is read.
package parity
