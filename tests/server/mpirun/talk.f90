! SPDX-License-Identifier: MIT OR Apache-2.0
! `talk KIND`: two processes that print, read and end in the way of KIND, as those of talk.c.
program talk
  use, intrinsic :: iso_c_binding, only: c_int, c_long, c_intptr_t
  implicit none
  include 'mpif.h'
  interface
    integer(c_int) function usleep(microseconds) bind(c)
      import c_int
      integer(c_int), value :: microseconds
    end function
    integer(c_int) function gettimeofday(time, zone) bind(c)
      import c_int, c_long, c_intptr_t
      integer(c_long) :: time(2)
      integer(c_intptr_t), value :: zone
    end function
    integer(c_int) function raise(number) bind(c)
      import c_int
      integer(c_int), value :: number
    end function
  end interface
  integer :: rank, status, line, number
  character(len=32) :: kind
  character(len=64) :: text

  call MPI_Init(status)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, status)
  call get_command_argument(1, kind)
  select case (trim(kind))
  case ('lines')
    do line = 0, 2
      print '(a,i0,a,i0)', 'rank ', rank, ' line ', line
    end do
  case ('flushed')
    do line = 1, 3
      write (6, '(a,i0,a,f0.4)') 'rank ', rank, ' at ', now()
      flush (6)
      call nap(150)
    end do
  case ('partial')
    if (rank == 0) then
      write (6, '(a,f0.4,a)', advance='no') 'rank 0 half at ', now(), ' '
      flush (6)
      call nap(300)
      write (6, '(a)') 'rest'
    end if
  case ('both')
    write (0, '(a,i0,a)') 'rank ', rank, ' error'
    write (6, '(a,i0,a)') 'rank ', rank, ' output'
    flush (6)
    call nap(50)
    write (0, '(a,i0,a)') 'rank ', rank, ' error 2'
  case ('input')
    number = 0
    do
      read (5, '(a)', iostat=status) text
      if (status /= 0) exit
      number = number + 1
      print '(a,i0,a,a)', 'rank ', rank, ' read ', trim(text)
    end do
    print '(a,i0,a,i0)', 'rank ', rank, ' lines ', number
  case ('finalized')
    call before(.false.)
    call MPI_Finalize(status)
    if (rank == 1) stop 3
    stop
  case ('exit')
    call before(.true.)
    if (rank == 1) stop 3
    call nap(20000)
  case ('abort')
    call before(.true.)
    if (rank == 1) call MPI_Abort(MPI_COMM_WORLD, 7, status)
    call nap(20000)
  case ('crash')
    call before(.true.)
    if (rank == 1) status = raise(11_c_int)
    call nap(20000)
  case ('hang')
    call before(.true.)
    call nap(60000)
  case ('silent')
    call before(.false.)
    call nap(60000)
  end select
  call MPI_Finalize(status)

contains

  ! Prints a line before the end of the job, so that a launcher that ends it must not lose the line.
  subroutine before(flushes)
    logical, intent(in) :: flushes
    integer :: ignored
    write (6, '(a,i0,a)') 'rank ', rank, ' before'
    if (flushes) flush (6)
    call MPI_Barrier(MPI_COMM_WORLD, ignored)
  end subroutine

  subroutine nap(milliseconds)
    integer, intent(in) :: milliseconds
    integer :: left
    integer(c_int) :: ignored
    left = milliseconds
    do while (left > 0)
      ignored = usleep(int(min(left, 500) * 1000, c_int))
      left = left - 500
    end do
  end subroutine

  real(8) function now()
    integer(c_long) :: time(2)
    integer(c_int) :: ignored
    ignored = gettimeofday(time, 0_c_intptr_t)
    now = real(time(1), 8) + real(time(2), 8) / 1d6
  end function
end program
