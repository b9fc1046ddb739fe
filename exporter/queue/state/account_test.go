package state

import "testing"

// ForRoom is a part of Dropped, whatever becomes of the records that a full queue gave up.
func TestForRoomIsAPartOfDropped(t *testing.T) {
	for name, tt := range map[string]struct {
		then func(*Account)
		want Account
	}{
		"set aside before": {func(a *Account) { a.Done(0, Outcome{DeadLettered: 3}) }, Account{Next: 11, DeadLettered: 3, Dropped: 7, ForRoom: 7}},
		"replayed": {func(a *Account) {
			var err error
			if *a, err = a.SetBack(6, Account{}); err != nil {
				t.Error(err)
			}
		}, Account{Next: 6, Dropped: 5, ForRoom: 5, ReplayTo: 11}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Account{Next: 11}
			got.DropForRoom(10)
			if tt.then(&got); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func sum(a Account) uint64 {
	return a.Delivered + a.Filtered + a.DeadLettered + a.Dropped + a.Corrupt
}

func TestSetBack(t *testing.T) {
	for name, tt := range map[string]struct {
		before Account
		from   uint64
		known  Account
		want   Account
	}{
		"delivered alone":   {Account{Next: 11, Delivered: 10}, 4, Account{}, Account{Next: 4, Delivered: 3, ReplayTo: 11}},
		"from the start":    {Account{Next: 11, Delivered: 10}, 1, Account{}, Account{Next: 1, ReplayTo: 11}},
		"lost":              {Account{Next: 11, Delivered: 6, Corrupt: 4}, 4, Account{Corrupt: 3}, Account{Next: 4, Delivered: 2, Corrupt: 1, ReplayTo: 11}},
		"lost to others":    {Account{Next: 11, Delivered: 10}, 4, Account{Corrupt: 3}, Account{Next: 4, Delivered: 3, ReplayTo: 11}},
		"filtered":          {Account{Next: 11, Delivered: 2, Filtered: 8}, 4, Account{}, Account{Next: 4, Filtered: 3, ReplayTo: 11}},
		"set aside":         {Account{Next: 11, Delivered: 1, Filtered: 1, DeadLettered: 3, Dropped: 5}, 3, Account{}, Account{Next: 3, DeadLettered: 2, ReplayTo: 11}},
		"dead letters":      {Account{Next: 11, Delivered: 5, DeadLettered: 5}, 4, Account{DeadLettered: 3}, Account{Next: 4, Delivered: 1, DeadLettered: 2, ReplayTo: 11}},
		"losses forgotten":  {Account{Next: 11, Corrupt: 10}, 4, Account{}, Account{Next: 4, Corrupt: 3, ReplayTo: 11}},
		"during a replay":   {Account{Next: 6, Delivered: 5, ReplayTo: 11}, 4, Account{}, Account{Next: 4, Delivered: 3, ReplayTo: 11}},
		"after one is done": {Account{Next: 16, Delivered: 15, ReplayTo: 11}, 4, Account{}, Account{Next: 4, Delivered: 3, ReplayTo: 16}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.before.SetBack(tt.from, tt.known)
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
			if n := sum(got); n != got.Next-1 {
				t.Errorf("got a sum of %d before record %d: the books do not balance", n, got.Next)
			}
		})
	}
	if a, err := (Account{Next: 11, Delivered: 2}).SetBack(4, Account{}); err == nil {
		t.Errorf("got %+v of an account that does not add up, want an error", a)
	}
}
