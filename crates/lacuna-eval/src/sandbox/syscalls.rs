//! The seccomp filter: system calls that no solution of a programming exercise needs.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    sock_filter,
};

/// Refused as not permitted.
const REFUSED: &[i64] = &[
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pidfd_getfd,
    libc::SYS_setsid,
    libc::SYS_setpgid,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    // These reach into other processes of the same user.
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_quotactl,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // What these make outlives the program, and what they remove may be another's.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // Landlock has no say over these.
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
    FILE_SETATTR,
];

/// Calls of newer kernels, which have the same number everywhere.
const FCHMODAT2: i64 = 452;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const FILE_SETATTR: i64 = 469;

/// Calls that only x86-64 has: older forms of those above.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_kexec_file_load,
    libc::SYS_iopl,
    libc::SYS_ioperm,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// Refused with some arguments: the call, the number of the argument, and what it must not be.
const REFUSED_ARGUMENTS: [(i64, u8, SeccompCmpOp, u64); 8] = [
    // A thread is a clone with CLONE_THREAD; without it, it is a process.
    (libc::SYS_clone, 0, SeccompCmpOp::MaskedEq(libc::CLONE_THREAD as u64), 0),
    // The limits of another process.
    (libc::SYS_prlimit64, 0, SeccompCmpOp::Ne, 0),
    // The program dies with the evaluation, and cannot decide otherwise.
    (libc::SYS_prctl, 0, SeccompCmpOp::Eq, libc::PR_SET_PDEATHSIG as u64),
    // A pipe or socket that signals its owner could signal any process.
    (libc::SYS_fcntl, 1, SeccompCmpOp::Eq, libc::F_SETOWN as u64),
    (libc::SYS_fcntl, 1, SeccompCmpOp::Eq, F_SETOWN_EX),
    (libc::SYS_ioctl, 1, SeccompCmpOp::Eq, FIOSETOWN),
    (libc::SYS_ioctl, 1, SeccompCmpOp::Eq, SIOCSPGRP),
    // Typing into the user's terminal.
    (libc::SYS_ioctl, 1, SeccompCmpOp::Eq, TIOCSTI),
];
const F_SETOWN_EX: u64 = 15;
const FIOSETOWN: u64 = 0x8901;
const TIOCSTI: u64 = 0x5412;
const SIOCSPGRP: u64 = 0x8902;

/// The compiled filters; none on an architecture that seccompiler does not know.
pub(super) fn filters() -> Vec<BpfProgram> {
    [refused(), without_clone3(), without_x32()].into_iter().flatten().collect()
}

fn refused() -> Option<BpfProgram> {
    let calls = REFUSED.iter().chain(REFUSED_HERE);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = calls.map(|&call| (call, Vec::new())).collect();
    for (call, argument, operator, value) in REFUSED_ARGUMENTS {
        // The kernel looks at 32 bits of each of these.
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value).ok()?;
        rules.entry(call).or_default().push(SeccompRule::new(vec![condition]).ok()?);
    }
    let architecture = std::env::consts::ARCH.try_into().ok()?;
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture).ok()?.try_into().ok()
}

/// The arguments of clone3 lie in memory, where no filter sees them. Without it the C library falls back to clone.
fn without_clone3() -> Option<BpfProgram> {
    let rules = [(libc::SYS_clone3, Vec::new())].into();
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    let architecture = std::env::consts::ARCH.try_into().ok()?;
    SeccompFilter::new(rules, SeccompAction::Allow, missing, architecture).ok()?.try_into().ok()
}

/// On x86-64 every call has a second number, that of the x32 interface, under which the filter would not know it.
fn without_x32() -> Option<BpfProgram> {
    const X32: u32 = 0x4000_0000;
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let compare = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    let answer = (libc::BPF_RET | libc::BPF_K) as u16;
    let instruction = |code, jf, k| sock_filter { code, jt: 0, jf, k };
    cfg!(target_arch = "x86_64").then(|| {
        vec![
            // The number of the call stands at the very beginning.
            instruction(load, 0, 0),
            instruction(compare, 1, X32),
            instruction(answer, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            instruction(answer, 0, libc::SECCOMP_RET_ALLOW),
        ]
    })
}
