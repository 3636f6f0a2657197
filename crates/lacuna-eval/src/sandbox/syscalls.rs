//! The seccomp filter: system calls that no solution of a programming exercise needs.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// Refused as not permitted.
const REFUSED: [i64; 62] = [
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
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // Landlock has no say over these.
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
];

/// The compiled filter, or `None` on an architecture that seccompiler does not know.
pub(super) fn filter() -> Option<BpfProgram> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|&call| (call, Vec::new())).collect();
    #[cfg(target_arch = "x86_64")]
    for call in [libc::SYS_fork, libc::SYS_vfork, libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown, libc::SYS_utime] {
        rules.insert(call, Vec::new());
    }
    // A thread is a clone with CLONE_THREAD; without it, it is a process.
    let process =
        SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(libc::CLONE_THREAD as u64), 0);
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![process.ok()?]).ok()?]);
    let architecture = std::env::consts::ARCH.try_into().ok()?;
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let refused: BpfProgram =
        SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture).ok()?.try_into().ok()?;
    Some(refused)
}

/// The arguments of clone3 lie in memory, where no filter sees them. Without it the C library falls back to clone.
pub(super) fn without_clone3() -> Option<BpfProgram> {
    let rules = [(libc::SYS_clone3, Vec::new())].into();
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    let architecture = std::env::consts::ARCH.try_into().ok()?;
    SeccompFilter::new(rules, SeccompAction::Allow, missing, architecture).ok()?.try_into().ok()
}
