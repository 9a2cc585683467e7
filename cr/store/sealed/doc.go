// Package sealed encrypts what lies in a store of any kind, with the key of a file. Who can read or write the store
// without the key can neither read a piece nor change it unseen.
//
// # Key file
//
// It has 32 random bytes and nothing else. NewKey makes one, and so does head -c 32 /dev/urandom.
// Only its owner may read it (chmod 600). A user who loses it has lost the sealed images.
//
// # Format of a piece
//
// Integers are big-endian. A piece of n bytes is cut into blocks of 64 KB; only the last may be shorter.
//
//	off 0   "gorunSE1"                magic and version
//	    8   uint32  65536             bytes of a block
//	    12  uint32  0
//	    16  8 bytes                   which key: HKDF-SHA256(key, no salt, "gorun sealed key")
//	    24  32 bytes                  salt, random, new for each piece
//	    56  8 bytes 0
//	    64  block 0, its tag (16)     block i is at 64 + i*(65536+16)
//	    ..  block 1, its tag
//	    end uint64 n, encrypted, its tag (24 bytes together)
//
// Blocks are encrypted with AES-256-GCM. The key of a piece is HKDF-SHA256(key, salt, "gorun sealed piece"). The nonce
// of block i is 4 zero bytes and i in 8 bytes, that of the end 12 bytes 0xff. Associated data are the 64 bytes of the
// head, the nonce and the name of the piece.
//
// So each block can be read without the others. One that was changed, moved to another place, or
// taken from another piece does not open. A piece that was cut or lengthened does not fit its end.
// A set of pieces is not secret: names and sizes can be seen, and a whole set can be put back as it
// once was; the digest in a snapshot's schema tells.
//
// # Nonces
//
// The key of a piece is used for this piece only, as its salt is random. Under it each block is encrypted once: a
// Writer refuses a range that is written twice, and keeps the last block until Commit, which may cut it.
package sealed
