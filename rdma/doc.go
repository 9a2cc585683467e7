// Package rdma lets programs speak over queue pairs, of an adapter or in software, and be checkpointed while requests are under way. It is for programs that write to each other's
// memory, or send messages, without MPI. After a restart they may be over another adapter or another kind of provider.
//
//	d, err := rdma.Open(rank, "", "")            // any provider, its best device
//	domain, err := d.NewDomain()
//	queue, err := d.NewQueue(64)
//	region, err := domain.Register(memory, rdma.LocalWrite|rdma.RemoteWrite)
//	pair, err := domain.NewPair(rdma.PairConfig{Send: queue, Receive: queue, SendDepth: 16, ReceiveDepth: 16})
//	... tell the peer pair.Address() and region.Key(), and learn the peer's ...
//	err = pair.Connect(rdma.RemoteWrite, peer)
//	_, err = pair.Post([]rdma.Request{{Opcode: rdma.Write, Flags: rdma.Signalled, Segments: []rdma.Segment{region.At(0, 64)}, Remote: key}})
//	n, err := queue.Poll(completions)
//
// Words are those of the InfiniBand Architecture Specification. Package rpi/rdma/provider states what is promised of states, order, completions and memory. Provider soft is always there. A
// program that imports github.com/gorun-mpi/gorun/rdma/ofi has libfabric's as well.
//
// # Who is who
//
// The processes of a program have ranks from 0 on. How they tell each other addresses is the program's own affair: a Gather, which gives each rank what all ranks have
// said. Ranks that gorun has started may use its communicators for that. PeerPair and RemoteRegion are plain data: package encoding/gob or
// encoding/json carries them, and so does Exchange.
//
// # Checkpoints
//
// Checkpoints are by calls, all of them collective, at a place of the program's choice. Requests may be under way, and receives may be posted:
//
//	err := d.Quiesce(gather)     // nothing moves any more
//	image, err := d.Image()      // to be kept together with the memory of all regions
//	d.Continue()                 // the program goes on, or ends
//
//	d, err := rdma.Load(image, provider, device, memory, gather)    // in a new process
//
// Load finds the memory of each region by its ID. Pairs, queues and regions are found by their IDs, which stay what they were: Device.Pair, Device.Queue, Device.Region. Keys and
// addresses that peers have learnt stay valid. What was posted and not known to be over is posted again, and each completion comes once.
//
// A process that is imaged as a whole (gorun's native back-end) calls Quiesce before the image. Where it finds itself restored it calls Restart with restored set, otherwise Continue. Gorun does not call these itself: its
// checkpoints fall anywhere, and a program that polls its own queues has to stop by itself. Until all ranks have returned from Quiesce, and again from Continue or Restart on, checkpoints with whole images are refused, and
// the job goes on.
//
// # Memory
//
// Registered memory must stay mapped until its region is closed, must hold no pointers and be no part of a stack. One goroutine at a time uses a Device and what was made of it.
package rdma
