// Package audit reviews the objects that a cluster, or a directory of manifests, has
// already, and says of each run whether its violations are all that there are.
//
//	audit.go      Config, and Run: one run from its first kind to its own record
//	objects.go    the objects of one kind, page by page; their namespaces
//	records.go    violations become records, and are stored
//	faults.go     why a run is not complete
//	cluster.go    Lister of a cluster
//	manifests.go  Lister of objects that were read from files
//	schedule.go   Schedule: runs again and again, in one pod at a time
//
// A run holds one page of objects, at most 1 MiB of records that wait to be stored and,
// of the kind under way, some 25 bytes an object: 100 MB of RSS for 100,000 pods, and 90 MB for 20,000.
//
// BUG: The API server pages by number and not by size. A page of 500 objects of 1 MiB each
// takes gigabytes: where a cluster has such objects, lower Config.ChunkSize.
//
// BUG: Objects that come or go while a run is under way may be in it or not, as with every
// list that takes several pages.
package audit
