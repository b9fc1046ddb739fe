package client

// deque is a queue in a ring that doubles when it is full. The zero value works.
type deque[T any] struct {
	ring []T
	head int // index of the front
	n    int
}

func (d *deque[T]) len() int { return d.n }

// at returns the element i places behind the front.
func (d *deque[T]) at(i int) T { return d.ring[(d.head+i)&(len(d.ring)-1)] }

func (d *deque[T]) pushBack(v T) {
	if d.n == len(d.ring) {
		ring := make([]T, max(2*d.n, 16)) // a power of two, for at
		for i := range d.n {
			ring[i] = d.at(i)
		}
		d.ring, d.head = ring, 0
	}
	d.ring[(d.head+d.n)&(len(d.ring)-1)] = v
	d.n++
}

func (d *deque[T]) popFront() T {
	var zero T
	v := d.ring[d.head]
	d.ring[d.head] = zero // else the ring would keep it alive
	d.head = (d.head + 1) & (len(d.ring) - 1)
	if d.n--; d.n == 0 && len(d.ring) > smallRing {
		*d = deque[T]{} // a burst is not remembered for ever
	}
	return v
}

// smallRing is the size that a ring may keep when it is empty: 8 KiB of pointers.
const smallRing = 1024
