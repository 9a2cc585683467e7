// Package lease holds the permission of a node to act for a job, and the rules by
// which the head knows for certain that a node it no longer hears cannot act any more.
//
// # Idea
//
// A node that the head does not hear may be without power, or cut off, or slow, or
// stopped: and in all but the first case its ranks still write files and send messages,
// now or when somebody lets it go on. Before the head starts successors of these ranks
// elsewhere they must have ended. Nobody can tell them to. So a node may act for a while
// only, the lease, and asks for more of it all the time:
//
//	keeper (Holder)                                   head (Granter)
//	  a = Ask(now)         ------ renew a ------>       Renew(a, now): g = now
//	  Granted(a, now)      <----- grant a -------
//	  acts while its clock is below a + L               fenced from g + L + L/100 + 1 s on
//
// The keeper asks every H, the head answers with the value that was asked. The
// processes of the node leave the rest to the kernel: a Timer that kills them when the
// clock reaches Until, set again by every grant. It also kills a process that is stopped
// or frozen, and whatever it has been doing.
//
// # Invariant
//
// No holder acts at or after the time that its granter's FencedAt tells, whatever is
// lost, late, doubled or overtaken on the way, in one direction or both, and however
// long either side stands still. It holds because
//
//   - a holder's lease counts from the *ask* and a granter's from the *grant*, which
//     comes after it: so whatever time frames and pauses take is on the safe side;
//   - a holder takes only values that it has asked, and counts from the one granted, not
//     from the newest; it keeps the latest end that it was given;
//   - a granter grants nothing after it has called a holder lost (Silent) or ended (End),
//     so the last grant is known, and FencedAt does not move any more;
//   - a holder that was never granted anything may not act, and is fenced at once.
//
// The two clocks are never compared: values of the holder's clock travel to the granter
// and back unread; only their order counts. Only spans are counted on both sides, and those
// must agree: within one per cent, which is a hundred times worse than a quartz. The
// second on top is for what follows the end of the clock: the timer's signal, the end of
// the process, and of its ranks by their parent-death signal; and for milliseconds
// rounded away.
//
// # What is lost when
//
// A granter that hears no new ask for L/2 calls the holder lost and never grants it
// anything again, also if it comes back: of two lives of a node only one may be believed.
// The other half of the lease is what a holder that loses single frames lives on. A granter
// that stands still itself does not hear anybody; of the time in which nobody called
// Silent it counts two H at most. Until the first ask a holder is not silent but
// starting, for which the caller has a limit of its own.
//
// # Clocks and timers
//
// All times are milliseconds of CLOCK_BOOTTIME (Now), which goes on while a machine is
// suspended and is nobody's to set. A Timer belongs to a process: a child does not inherit it, and
// a program that the process executes instead of itself no longer has it.
//
// # Not covered
//
// A virtual machine that is stopped as a whole may find, when it goes on, that its clock
// has stood still, too. It then acts for the rest of its lease. Its messages are refused,
// having another incarnation's secret, and it commits no snapshot, which the head alone
// does; but a program's own output files are open to it. And a lease ends the process that
// holds a Timer and those that die with it. What ranks have started themselves is the
// keeper's to end.
package lease
