// Package lease holds the permission of a node to act for a job, and the rules by
// which the head knows for certain that a node it no longer hears cannot act any more.
//
// # Idea
//
// A node that the head does not hear may be without power, cut off, slow or stopped. In
// all but the first case its ranks still write files and send messages, now or when it
// is continued. They must have ended before the head starts their successors elsewhere,
// and the head cannot tell them to end. So a node may act only for a limited time, the
// lease, and asks for an extension all the time:
//
//	keeper (Holder)                                   head (Granter)
//	  a = Ask(now)         ------ renew a ------>       Renew(a, now): g = now
//	  Granted(a, now)      <----- grant a -------
//	  acts while its clock is below a + L               fenced from g + L + L/100 + 1 s on
//
// The keeper asks every H, the head answers with the value that was asked. The processes
// of the node leave the rest to the kernel: a Timer that kills them when the clock
// reaches Until, set again by every grant. It kills a process in any state, even one
// that is stopped or frozen.
//
// # Invariant
//
// No holder acts at or after the time that its granter's FencedAt returns. That
// holds even if frames are lost, late, doubled or reordered, in one direction or
// both, and however long either side stands still, because
//
//   - a holder's lease counts from the *ask* and a granter's from the *grant*, which
//     comes after it, so the time that frames and pauses take is on the safe side;
//   - a holder takes only values that it has asked with, and counts from the one
//     granted, not from the newest; it keeps the latest end that it was given;
//   - a granter grants nothing after it has called a holder lost (Silent) or ended (End),
//     so the last grant is known, and FencedAt does not move any more;
//   - a holder that was never granted anything may not act, and is fenced at once.
//
// The two clocks are never compared: values of the holder's clock travel to the granter and
// back unread; only their order counts. Only spans are compared, and those must agree
// within one per cent, which is a hundred times worse than a quartz. The additional second
// covers what follows the end of the lease: the timer's signal, the end of the process, and
// of its ranks by their parent-death signal. It also covers rounding to milliseconds.
//
// # What is lost when
//
// A granter that hears no new ask for L/2 calls the holder lost and never grants it
// anything again, even if it comes back: only one of two lives of a node may be trusted.
// The other half of the lease carries a holder over the loss of single frames. A granter
// that stands still itself hears no holder, so it counts at most two H of the time between
// two calls of Silent. Until the first ask a holder is not silent but starting, for which
// the caller has a limit of its own.
//
// # Clocks and timers
//
// All times are milliseconds of CLOCK_BOOTTIME (Now), which goes on while a machine is suspended
// and which no process can set. A Timer belongs to a process: a child does not inherit it, and a
// program that the process executes instead of itself no longer has it.
//
// # Not covered
//
// The clock of a virtual machine that is stopped as a whole may stand still, too. It then
// acts for the rest of its lease. Its messages are refused, because they have another
// incarnation's secret, and it cannot commit a snapshot, which only the head does. But it
// can write to the program's own output files. And a lease ends only the process that
// holds a Timer and those that die with it. Processes that ranks have started themselves
// are ended by the keeper.
package lease
