!> Balls on a hill: the environment of example.c in Fortran.
!>
!>     example_fortran CONNECTION_FILE [SLOT [ENVIRONMENTS]]
program example
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  use flowsim_client
  implicit none

  integer, parameter :: observation_size = 2, action_size = 1, longest_episode = 100
  real(c_double), parameter :: dt = 0.05_c_double

  type :: ball
    real(c_double) :: x = 0, v = 0, total = 0
    integer :: steps = 0
    integer(c_int64_t) :: random = 0
  end type ball

  type(flowsim_worker) :: worker
  type(ball), allocatable :: balls(:)
  real(c_float), allocatable :: observations(:, :), final_observations(:, :), actions(:, :)
  real(c_double), allocatable :: rewards(:)
  integer(c_int), allocatable :: status(:)
  integer :: i, n, slot, code
  character(len=1024) :: connection_file

  if (command_argument_count() < 1) error stop 'example_fortran CONNECTION_FILE [SLOT [ENVIRONMENTS]]'
  call get_command_argument(1, connection_file)
  slot = argument(2, -1)
  n = argument(3, 1)
  allocate (balls(n), observations(observation_size, n), final_observations(observation_size, n), &
            actions(action_size, n), rewards(n), status(n))

  code = flowsim_open(worker, connection_file, slot, n, observation_size, [-1.0_c_double], [1.0_c_double])
  if (code == FLOWSIM_OK) then
    do i = 1, n
      balls(i)%random = 1 + mod(flowsim_seed(worker, i), 2147483646_c_int64_t)
      call begin_episode(balls(i))
      observations(:, i) = observed(balls(i))
    end do
    code = flowsim_reset(worker, observations, actions)
  end if
  do while (code == FLOWSIM_OK)
    do i = 1, n
      call roll(balls(i), actions(1, i), rewards(i))
      status(i) = FLOWSIM_GOES_ON
      if (balls(i)%steps == longest_episode) status(i) = FLOWSIM_TRUNCATED
      if (abs(balls(i)%x) > 1) status(i) = FLOWSIM_TERMINATED
      if (status(i) /= FLOWSIM_GOES_ON) then
        call report(i, balls(i), merge('terminated', 'truncated ', status(i) == FLOWSIM_TERMINATED))
        final_observations(:, i) = observed(balls(i))
        call begin_episode(balls(i))
      end if
      observations(:, i) = observed(balls(i))
    end do
    code = flowsim_step(worker, rewards, observations, final_observations, status, actions)
  end do
  if (code == FLOWSIM_OVER) then
    do i = 1, n
      call report(i, balls(i), 'open')
    end do
  else
    write (error_unit, '(2a)') 'example: ', flowsim_error(worker)
  end if
  call flowsim_close(worker)
  deallocate (balls, observations, final_observations, actions, rewards, status)
  if (code /= FLOWSIM_OVER) stop 1

contains

  integer function argument(position, default)
    integer, intent(in) :: position, default
    character(len=32) :: text
    integer :: failed

    argument = default
    if (command_argument_count() < position) return
    call get_command_argument(position, text)
    read (text, *, iostat=failed) argument
    if (failed /= 0) error stop 'SLOT and ENVIRONMENTS are whole numbers'
  end function argument

  !> Uniform in [-1, 1] (the minimal standard generator of Park and Miller).
  real(c_double) function uniform(state)
    integer(c_int64_t), intent(inout) :: state

    state = mod(48271_c_int64_t*state, 2147483647_c_int64_t)
    uniform = 2*real(state, c_double)/2147483647 - 1
  end function uniform

  subroutine begin_episode(this)
    type(ball), intent(inout) :: this

    this%x = 0.1_c_double*uniform(this%random)
    this%v = 0.1_c_double*uniform(this%random)
    this%steps = 0
    this%total = 0
  end subroutine begin_episode

  function observed(this) result(observation)
    type(ball), intent(in) :: this
    real(c_float) :: observation(observation_size)

    observation = real([this%x, this%v], c_float)
  end function observed

  !> Do one step of semi-implicit Euler.
  subroutine roll(this, action, reward)
    type(ball), intent(inout) :: this
    real(c_float), intent(in) :: action
    real(c_double), intent(out) :: reward

    this%v = this%v + dt*(this%x - 0.1_c_double*this%v + 2*real(action, c_double))
    this%x = this%x + dt*this%v
    reward = 1 - this%x**2
    this%steps = this%steps + 1
    this%total = this%total + reward
  end subroutine roll

  subroutine report(environment, this, how)
    integer, intent(in) :: environment
    type(ball), intent(in) :: this
    character(len=*), intent(in) :: how

    print '(a, i0, a, i0, a, es24.16e3, 2a)', 'environment ', environment - 1, ' steps ', this%steps, ' return ', &
      this%total, ' ', trim(how)
  end subroutine report

end program example
