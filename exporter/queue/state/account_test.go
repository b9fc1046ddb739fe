package state

import "testing"

// ForRoom is a part of Dropped, whatever becomes of the records that a full queue gave up.
func TestForRoomIsAPartOfDropped(t *testing.T) {
	for name, tt := range map[string]struct {
		then func(*Account)
		want Account
	}{
		"set aside before":   {func(a *Account) { a.Done(0, Outcome{DeadLettered: 3}) }, Account{Next: 11, DeadLettered: 3, Dropped: 7, ForRoom: 7}},
		"set aside, a crash": {func(a *Account) { a.Adopt(2, 1) }, Account{Next: 11, DeadLettered: 2, Redriving: 1, Dropped: 7, ForRoom: 7}},
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
