// Package shm carries frames between ranks of one machine through memory that
// they share.
//
// # Memory
//
// Each rank makes one segment, a memfd: it has no name in any file system, so
// nothing can be left behind, and no rank can make it shorter under another. The
// others map it by way of /proc/PID/fd/N, which the kernel allows to processes of
// the same user in the same namespaces, and make sure that it was made by
// somebody who knows the secret of the incarnation. A segment is
//
//	control   written by its owner and, word by word, by the others
//	    0 magic "gorunSHM", proof [32], the segment's place in the owner's memory u64
//	   64 bell u32: a futex on which the owner sleeps
//	  128 arrivals u32: counts changes of doors
//	  144 asked u32 of each board: a peer waits for the owner's next line
//	  192 door u64 of each rank: where its ring to the owner is
//	      taken u32 of each rank, a line each: cells of that ring used up
//	      slots of 64 bytes: buffers of the owner that a peer may copy from or to
//	boards    8 of up to 516 KB for teams (see rpi.Boards), written by the owner
//	rings     one to each rank to whom the owner has ever sent, written by the owner
//	pool      chunks of 2 KB and 16 KB for payloads, written by the owner
//
// Others map boards and rings read-only: a rank can spoil what it says itself, and
// nobody else's words. They map the pool once more, writable although nobody writes
// another's, and read frames of up to 64 KB there, which takes 0.6 to 1 of the time: a
// line goes to its only reader for good, instead of being there as well. So a stray
// pointer may spoil a payload of another's, as it may one that was received. The sizes depend on how many ranks share the machine (see
// geometry), and memory is only taken when it is first used.
//
// # Rings
//
// A ring is an array of cells of 64 bytes, one cache line (cell.go draws them).
// The first word of a cell is stored last, and after everything else; its lap
// number tells the receiver, who looks at this one word, that the cell is there.
// A small message travels in that one line, so that a message costs one transfer
// of a line between two CPUs and nothing else; one of up to 96 bytes takes the next
// line as well, which is written before. Messages that the engine says may wait
// share a cell if they have the same envelope and length: the sender adds to
// the cell that it filled last for as long as there is room and no other frame
// follows. They do not wait in fact: a receiver who has read that cell looks at its
// word as well as at the next one's. But one who is behind fetches one line for all
// of them, and the sender need not get a line from it for each. A cell that goes on
// with the envelope of the last such cell leaves it out and has room for more: seven
// messages of 8 bytes instead of five.
//
// The receiver tells how many cells it has used up in each cell that it sends
// itself, and by the counter taken where it sends none: each time that it has used
// up a quarter of the ring, or chunks. The sender looks at taken only when the ring
// is full or the pool empty.
//
// Longer payloads are copied into chunks of the sender's pool, which the cells
// name. A message of up to 8 KB has one, and its cell nothing but envelope, place
// and length. If the receiver has used up all else, and so most likely waits, one
// from 2 KB on is shown when its first half is there: the receiver copies that while
// the sender writes the second, and then changes the form in the word of the cell. Of
// any other frame the first cell has the header and the first chunk, further ones
// follow, and the receiver copies one to its destination while the sender fills the
// next. Large pieces are moved in a way that does not fetch what
// they overwrite, where the processor has one. A frame for which there is no room
// is continued by Poll and Flush. A chunk is free when the cell that named it is
// used up: only the sender keeps account of it.
//
// A door is written when the sender opens its ring, and again when it leaves.
//
// # Sleep
//
// Who is about to sleep sets its bell to armed, and then looks at the rings once
// more; who has sent something looks at the bell afterwards, with a full barrier
// in between on both sides. So at least one of the two sees the other, and who
// finds the bell armed clears it and wakes the sleeper. A rank that waits for
// room says so in its bell; others pay nothing for it. Who makes room pays for the
// barrier only when nothing is left to do: who sleeps by then is woken.
//
// # Long messages
//
// They go as Data frames, piece by piece through the pool. These two copies, at
// work at the same time and in the cache, take two thirds of the time that one
// copy by the kernel takes, from 256 KB to 16 MB, with CPUs shared or not; but where
// two ranks have no cache in common, seven times as long. So the
// kernel copies from process to process (process_vm_readv, process_vm_writev)
// where that is seen (apart.go), or as parameter shm.direct asks for it. A rank then publishes a buffer in a
// slot of its control part, whose number and generation are the key. The process
// of a peer is known by the mark of its segment, which is read along: numbers of
// processes are used again. What is forbidden, or fails, goes as Data frames; what
// is forbidden, at the start or later, is told once to who has asked for it.
//
// # Death
//
// A rank that leaves says so in its doors. One that was killed is missed by those
// who have slept for a second: its mark cannot be read, or, for a rank that may not
// read it, its process is not there. Either way the frames that are whole in its
// ring are delivered first.
//
// # Trust
//
// What a peer wrote is copied before it is checked, and checked before it is used:
// places and lengths, kinds and forms, counters. What cannot be ends the channel
// to that peer, with ErrCorrupt.
package shm
