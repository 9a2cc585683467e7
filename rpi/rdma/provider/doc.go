// Package provider is what gorun asks of an adapter with queue pairs, or of something that acts like one. It is
// narrow on purpose: what InfiniBand's verbs, the kernel's soft-RoCE and libfabric's endpoints have in common, and no more.
// Words are those of the InfiniBand Architecture Specification, volume 1, chapters 9 to 11. Programs use package
// rdma, and transports package rpi/rdma. Both go through rpi/rdma/virtual, which is the only caller of a provider.
//
//	Provider -> Device -> ProtectionDomain -> MemoryRegion
//	                                       -> SharedReceiveQueue
//	                                       -> QueuePair
//	                   -> CompletionQueue
//
// # Who may call
//
// One goroutine at a time calls the objects of one Device, any goroutine. Nothing blocks but Open,
// Close and the calls that make objects. Each object is closed once, after all that was made with
// it: queue pairs before their queues, regions, queues and pairs before their domain, all before
// the device. Otherwise Close returns ErrBusy and changes nothing. Device.Close closes the
// remaining objects, in that order.
//
// A Device is of one process. Where it lives on in a forked or restored process nothing may be called but Device.Abandon.
//
// # Connections
//
// Queue pairs are reliable and connected (RC): one to one, in order, each byte once. Each side makes its pair and tells the other its
// Address, by means of its own. Then it changes states:
//
//	Reset --> Init              receives may be posted
//	Init  --> ReadyToReceive    with the peer's Address: what the peer sends is taken
//	ReadyToReceive --> ReadyToSend
//	any   --> Failed            all that is posted completes with Flushed
//
// The peer may send as soon as it is ReadyToSend. What arrives at a pair that is not yet ReadyToReceive is sent again by
// the peer's device, as is a message for which no receive is posted (receiver not ready). This goes on without limit, as long as the peer's device
// answers. If it does not answer for some seconds, the request completes with RetryExceeded and the pair is Failed.
// A pair may be Failed on one side alone.
//
// # Order
//
// The requests of a send queue begin in the order in which they were posted. Their completions come in that order.
// Receives of one queue pair complete in the order in which the peer's messages were posted. From a SharedReceiveQueue the
// receives are taken in order, but those of different pairs complete in any order. Between different pairs, and between send and
// receive queue of one pair, there is no order. A Read takes its bytes when it is carried out: a later Send of the same pair may arrive at the
// peer before, and the order with a later Write is not defined.
//
// A Write is visible to the peer's program when the peer has got the completion of a later Send, or of an
// immediate value, of the same pair. Watching memory for it is not allowed. A sender knows by the completion of a Send or Write only that its
// buffers are its own again and that the peer's device has the message.
//
// # Completions
//
// A request with Signalled completes with one Completion. One without it has none, unless it fails; its slot and buffers are
// free when a later request of the same send queue has completed. Every receive completes. When a request fails its pair
// is Failed, and all others posted on the pair, and all that follow, complete with Flushed: unsignalled ones as well.
//
// # Progress
//
// Some providers move bytes only while their process polls (Info.Manual). Their Descriptor is readable
// when polling is needed, although no completion may come of it.
//
// # Memory
//
// Requests name bytes by Segments: slices of registered memory, with the region's local key. Inline requests copy their bytes
// when they are posted, and need no key. The memory of a request belongs to the device until its completion. A region
// keeps its bytes reachable until it is closed. Go's memory is registered as it is: the garbage collector does not move it. It must hold
// no pointers, and be no part of a stack.
package provider
