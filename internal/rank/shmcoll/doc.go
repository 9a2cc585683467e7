// Package shmcoll makes collectives of memory that ranks share (shared.Boards): state instead of
// messages. The members of a team take turns, numbered from 1. In each turn every member posts one
// line on its own board, and then reads the lines with that number of those members that it needs.
//
//   - A member that posts line n has read what it needed of line n-1. So a line may take the place
//     of line n-boardDepth once all members have posted later ones, and a long payload that of
//     line n-boardBulks.
//   - In every turn whose number is a multiple of allEvery, each member waits for all, in every
//     kind of turn. So there is room for lines without asking.
//   - Nothing is ever in flight. A reader that has read line n did so before its gate closed, and
//     then the writer's memory says that it posted it. So with the gate closed each member keeps a
//     copy of its own board, without the long payloads that are not read any more. After a restart
//     it writes the copy to its new board, and all members go on reading. A member that combines
//     lines (Turn.Combine, Turn.Once) needs them all at once and looks for all of them again.
//   - After a restart on several machines, a rank may not reach the board of another member. It
//     then has a mirror of that board. The other member fills it: it sends its lines, as frames of
//     kind Line, to exactly those members that do not reach its board. A frame says what is on a
//     board and for which team. So it may be sent again, or late: it is not taken twice, nor for
//     another team's.
//   - A line says whether its writer reaches all boards (lineUnreached). If a turn in which all
//     read all lines has shown that one does not, all members know the same. The team is over
//     (Team.Over), and its owner changes to messages when it next can. Turns without payload, and
//     those that are put together once (Turn.Once), do not show it, because not all members read
//     all of their lines.
//
// The engine of the rank is a Host: it answers a team's questions about other ranks, and carries
// lines to members that do not reach the board. The engine holds its lock in each call. It also
// decides how to wait for a turn: it calls Begin once, and Advance until the turn is over.
package shmcoll
