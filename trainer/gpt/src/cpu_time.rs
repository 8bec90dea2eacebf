//! Time that the processor gave to this process.

/// Returns the seconds that Linux gave to all threads of this process; `None` where nothing tells.
#[must_use]
pub fn seconds() -> Option<f64> {
    // The unit of /proc is a hundredth of a second on every architecture that Rust supports.
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // the name in parentheses may hold spaces; utime and stime are fields 14 and 15
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::seconds;

    #[test]
    fn the_system_tells_the_processor_time() {
        let before = seconds().unwrap();
        let mut x = 1.0_f64;
        while seconds().unwrap() < before + 0.05 {
            x = std::hint::black_box(x * 1.000_001);
        }
        assert!(seconds().unwrap() >= before + 0.05);
    }
}
