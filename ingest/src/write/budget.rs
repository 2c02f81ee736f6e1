//! The bound on memory: every byte of a pending request is reserved here first.

use std::{sync::Arc, time::Duration};

use metrics::{Gauge, counter, gauge};
use tidelake_format::{Error, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::metrics::{BUFFERED_BYTES, THROTTLED};

/// Bytes per permit.
const UNIT: usize = 1 << 10;

/// Bytes that all requests together may hold.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    permits: Arc<Semaphore>,
    units: usize,
    wait: Duration,
    /// Looked up once: each request updates it several times.
    buffered: Gauge,
}

/// Bytes of the budget held by a request until its rows are in the store.
#[derive(Debug)]
pub(crate) struct Reservation {
    permit: OwnedSemaphorePermit,
    units: usize,
    buffered: Gauge,
}

impl Reservation {
    /// Merges another reservation of the same budget into this one.
    pub(crate) fn merge(&mut self, mut other: Reservation) {
        if let Some(permit) = other.permit.split(other.permit.num_permits()) {
            self.permit.merge(permit);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let held = self.permit.num_permits();
        if held > 0 {
            let free = self.permit.semaphore().available_permits() + held;
            self.buffered.set((self.units.saturating_sub(free) * UNIT) as f64);
        }
    }
}

impl Budget {
    pub(crate) fn new(bytes: usize, wait: Duration) -> Self {
        let units = bytes.div_ceil(UNIT).clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
        Self { permits: Arc::new(Semaphore::new(units)), units, wait, buffered: gauge!(BUFFERED_BYTES) }
    }

    /// Reserves bytes; waits only briefly for other requests to finish.
    ///
    /// # Errors
    /// Unavailable if there is no room after the wait.
    pub(crate) async fn reserve(&self, bytes: usize) -> Result<Reservation> {
        let permit = self.acquire(bytes.div_ceil(UNIT).max(1)).await?;
        Ok(Reservation { permit, units: self.units, buffered: self.buffered.clone() })
    }

    /// Raises a reservation to at least `bytes` in total.
    ///
    /// # Errors
    /// As [`Budget::reserve`]; the reservation is then unchanged.
    pub(crate) async fn grow(&self, reservation: &mut Reservation, bytes: usize) -> Result<()> {
        let more = bytes.div_ceil(UNIT).saturating_sub(reservation.permit.num_permits());
        if more > 0 {
            reservation.permit.merge(self.acquire(more).await?);
        }
        Ok(())
    }

    async fn acquire(&self, units: usize) -> Result<OwnedSemaphorePermit> {
        let full = || {
            counter!(THROTTLED).increment(1);
            Error::unavailable("the write buffer is full").with("limit_bytes", self.units.saturating_mul(UNIT))
        };
        if units > self.units {
            return Err(full());
        }
        let units = u32::try_from(units).map_err(|_| full())?;
        let permit = match self.permits.clone().try_acquire_many_owned(units) {
            Ok(permit) => permit,
            Err(_) => tokio::time::timeout(self.wait, self.permits.clone().acquire_many_owned(units))
                .await
                .map_err(|_| full())?
                .map_err(|_| Error::unavailable("the write path is shut down"))?,
        };
        self.buffered.set((self.units.saturating_sub(self.permits.available_permits()) * UNIT) as f64);
        Ok(permit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[tokio::test]
    async fn a_full_budget_refuses_after_a_bounded_wait_and_recovers() {
        let budget = Budget::new(10 << 10, Duration::from_millis(200));
        let mut held = budget.reserve(6 << 10).await.unwrap();
        let before = tokio::time::Instant::now();
        assert_eq!(budget.reserve(5 << 10).await.unwrap_err().kind(), Kind::Unavailable);
        assert!(before.elapsed() >= Duration::from_millis(200));
        budget.grow(&mut held, 10 << 10).await.unwrap();
        assert_eq!(budget.reserve(1).await.unwrap_err().kind(), Kind::Unavailable);
        drop(held);
        assert!(budget.reserve(10 << 10).await.is_ok());
        assert_eq!(budget.reserve(11 << 10).await.unwrap_err().kind(), Kind::Unavailable);
    }
}
