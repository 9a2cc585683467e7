// Package shm carries frames between ranks of one machine through shared memory.
//
// # Memory
//
// Each rank makes one segment, a memfd. It has no name in any file system, so nothing can be
// left behind. It is sealed, so no rank can make it shorter under another. The others map it
// through /proc/PID/fd/N, which the kernel allows to processes of the same user in the same
// namespaces. A proof in the segment shows that its maker knows the secret of the incarnation.
//
// Up to 64 ranks of a machine map each other when they start. If there are more, each only
// makes sure at the start that it could map a peer, and maps it with the first message to or
// from it. A segment is
//
//	control   written by its owner and, word by word, by the others
//	    0 magic "gorunSHM", proof [32], the segment's place in the owner's memory u64
//	   64 bell u32: a futex on which the owner sleeps
//	  128 arrivals u32: counts changes of doors
//	  144 asked u32 of each board: a peer waits for the owner's next line
//	  192 door u64 of each rank: where its ring to the owner is
//	      taken u32 of each rank, a cache line each: cells of that ring used up
//	      slots of 64 bytes: buffers of the owner that a peer may copy from or to
//	boards    8 of up to 516 KB for teams (see shared.Boards), written by the owner
//	rings     one to each rank to which the owner has ever sent, written by the owner
//	pool      chunks of 2 KB and 16 KB for payloads, written by the owner
//
// The sizes depend on how many ranks share the machine (see geometry). Memory is taken only
// when it is first used.
//
// Peers map boards and rings read-only. So a rank can spoil its own words, and no other
// rank's. Peers map the pool a second time, writable, although no rank writes another's
// pool. Frames of up to 64 KB are read through this second mapping, which takes 0.6 to 1 of
// the time: the processor then moves a cache line to its reader instead of sharing it (see
// Module.payload). The price is that a stray pointer may spoil a payload of another rank, as
// it may spoil one that was received.
//
// # Rings
//
// A ring is an array of cells of 64 bytes, one cache line each (cell.go draws them). The first
// word of a cell is stored last. It has a lap number, so the receiver looks at this one word
// to know that the cell is there. A message of up to 40 bytes travels in that one line: it
// costs the transfer of one line between two CPUs. A message of up to 96 bytes takes the next
// line as well, which is written first.
//
// Messages that the engine says may wait share a cell if they have the same envelope and
// length. The sender adds to the cell that it filled last, while there is room and no other
// frame follows. The messages do not wait in fact: a receiver that has read that cell looks at
// its word as well as at the next cell's. A receiver that is behind fetches one line for all of
// them, and the sender need not get a line back for each. A cell whose envelope is that of the
// last such cell leaves the envelope out. It has room for seven messages of 8 bytes instead of
// five.
//
// Each cell tells how many cells of the opposite ring its sender has used up. A receiver that
// sends nothing tells it by the counter taken, whenever it has used up a quarter of the ring,
// or chunks. The sender looks at taken only when the ring is full or the pool is empty.
//
// Longer payloads are copied into chunks of the sender's pool, which the cells name. There are
// two kinds:
//
//   - A message of up to 8 KB has one chunk. Its cell has only envelope, place and length. If
//     the receiver has used up all other cells, it most likely waits. A message from 2 KB on is
//     then shown when its first half is there: the receiver copies that while the sender writes
//     the second half. The sender then changes the form in the cell's word.
//   - Any other frame has a header and a first chunk in its first cell. Further cells follow,
//     one for each chunk. The receiver copies one chunk while the sender fills the next.
//
// Large pieces are copied without fetching the lines that they overwrite, if the processor can
// do so. Poll and Flush continue a frame for which there was no room. A chunk is free when the
// cell that named it is used up. Only the sender keeps account of its chunks.
//
// A rank writes its door at a peer when it opens its ring, and again when it leaves.
//
// # Sleep
//
// A rank that is about to sleep arms its bell, and then looks at the rings once more. A rank
// that has sent something then looks at the receiver's bell. Both have a full barrier in
// between, so at least one of the two sees the other. A sender that finds the bell armed clears
// it and wakes the sleeper.
//
// A rank that waits for room says so in its bell, and other ranks pay nothing for it. A rank
// that makes room has the barrier only when it has nothing else to do; it then wakes those that
// sleep by now.
//
// # Long messages
//
// They go as Data frames, piece by piece through the pool. These are two copies, made at the
// same time and within the cache. From 256 KB to 16 MB they take two thirds of the time of one
// copy by the kernel, with CPUs shared or not. If two ranks have no cache in common, they take
// seven times as long. So the kernel copies from process to process (process_vm_readv,
// process_vm_writev) where that is seen (apart.go), or as parameter shm.direct asks for it.
//
// For such a copy a rank publishes a buffer in a slot of its control part. The key is the
// slot's number and generation. A number of a process may be used again, so the copy also reads
// the mark of the peer's segment, which tells whether it is that process. Copies that are
// forbidden, or fail, are replaced by Data frames. A forbidden copy is also reported once, if
// parameter shm.direct asked for it.
//
// # Death
//
// A rank that leaves says so in its doors. A rank that was killed is missed by peers that have
// slept for a second. They find that its mark cannot be read or, if they may not read it, that
// its process is not there. Either way the frames that are whole in its ring are delivered
// first. A peer whose memory was never needed is not watched: the launcher notices its death.
//
// # Trust
//
// What a peer wrote is copied before it is checked, and checked before it is used: places and
// lengths, kinds and forms, counters. Impossible values end the channel to that peer, with
// ErrCorrupt.
package shm
