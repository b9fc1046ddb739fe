// Package bench measures docket beside the plain program that does only the unavoidable part:
// it writes and syncs on the same disk, or sends to the same destination.
//
//	make bench                        every benchmark, COUNT (6) rounds of LAPS (5) iterations
//	make bench ONLY='Queue|Intake'    some of them
//	make bench-peers                  docket beside other programs
//
// Absolute figures of a shared machine drift by a factor of two to four within an hour. So a
// round runs the programs of a benchmark one after another, and there are several rounds: their
// medians are compared. The programs are in the names, for benchstat -col /program.
//
// An iteration is a lap: a fixed number of records, or one start. docket is the binary of make build.
package bench
