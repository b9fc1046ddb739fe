// Package fakekafka is a cluster of kfake brokers whose connections fail when a test says
// so. They fail at the nth request of a kind, before or after the broker carries it out. A
// client can die there, or stop and continue later as a zombie. A request of a closed
// connection can arrive late.
//
// kfake ends a transaction at once. One broker of kfake coordinates a transactional id and
// the group of the same name. Kafka does neither. Here transactional ids have coordinators
// of their own. A commit can stay prepared until a client has asked for it a few times, as
// in Kafka while markers are written.
//
// The package also reads what consumers read: the records that are committed, and the
// position of a group.
package fakekafka
